"""The placing of domains: layouts now, number types and delegates by the same solver later."""
