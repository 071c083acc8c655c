"""The parts of the pages that order something to be measured: widgets in, fields of a plan out."""
