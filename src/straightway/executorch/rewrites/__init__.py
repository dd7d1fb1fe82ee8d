"""Rewrites of exported programs into what XNNPACK takes whole: one file each."""
