"""OpenVINO: its devices and AUTO, settings as properties of the device, and a profile from its performance counters."""
