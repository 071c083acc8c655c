"""When a process is warm and when it has measured enough: pure statistics over samples, without clocks or engines."""
