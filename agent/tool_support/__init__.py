"""Shared parts of the tools: workspace, child processes, safe HTTP, text of web pages."""
