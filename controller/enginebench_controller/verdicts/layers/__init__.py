"""Profiles compared layer by layer, and what plain rules have to say of one."""
