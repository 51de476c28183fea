"""Sources that make their pairs: live while training runs, kept on disk, or single images with texts."""
