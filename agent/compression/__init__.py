"""The parts of the built-in context engine, `agent/context_compressor.py`: pure where they can be."""
