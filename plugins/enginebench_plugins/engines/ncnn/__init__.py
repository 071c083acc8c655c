"""ncnn: its own .param and .bin files on the processor, and a profile of every layer."""
