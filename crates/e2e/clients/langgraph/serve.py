"""Serves the graphs of this folder on a port of 127.0.0.1: `serve.py PORT`. Analytics and network
access are off.

The server writes its files into its working folder and reads its graphs from there, so they are copied.
"""

import os
import shutil
import sys
from pathlib import Path

here = Path(__file__).resolve().parent
os.environ.update(
    LANGGRAPH_CLI_NO_ANALYTICS="1",
    LANGSMITH_TRACING="false",
    LANGCHAIN_TRACING_V2="false",
)
for name in ["graphs.py", "langgraph.json"]:
    shutil.copy(here / name, ".")
program = Path(sys.executable).parent / "langgraph"
arguments = ["dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", sys.argv[1]]
os.execv(program, [str(program), *arguments, "--n-jobs-per-worker", "16"])
