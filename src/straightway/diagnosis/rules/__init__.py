"""The rules, one a file: its docstring is its documentation, what it says is what is printed."""
