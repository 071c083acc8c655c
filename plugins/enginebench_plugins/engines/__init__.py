"""The engines that come with enginebench, a folder each, registered as a stranger's would be.

`plugin` is the hook, `devices` the library and what it finds, `compiled` a model made ready, `profile` its layers; no
engine knows another one.
"""
