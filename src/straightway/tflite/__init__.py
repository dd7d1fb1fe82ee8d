"""TFLite: what its ops are (rows), and its files in and out (read, write)."""
