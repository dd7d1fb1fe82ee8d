"""The PyTorch route: export, lowering to ExecuTorch with XNNPACK, rewrites, runs and traces.

Needs the extra: `pip install 'straightway[executorch]'`. torch and executorch are imported here and
nowhere else.
"""
