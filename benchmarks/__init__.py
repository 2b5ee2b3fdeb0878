"""Ratios against onnxruntime-genai in-process, measured in the same run on the same model files.

Run as `python -m benchmarks`. A real server in a process of its own is driven through the Python client. Nothing here
judges: tests never look at times, and this prints what it saw. What each figure means is in docs/performance.md.
"""
