"""What costs time and computes nothing: rules that find it in a program's map and trace."""
