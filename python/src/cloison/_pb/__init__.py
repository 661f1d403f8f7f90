"""Generated from proto/vfl/v1 by python/scripts/generate.sh."""
