"""What the tools in `agent/tools/` stand on: the workspace, child processes, safe HTTP, text out of pages."""
