"""Many pairs to result lines: on one machine or a cluster, resumable by fingerprint."""
