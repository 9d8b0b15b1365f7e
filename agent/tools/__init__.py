"""The built-in tools, one file each. A new file with a tool of the same name is all it takes to add one."""
