"""What happened in a run, request by request and step by step; taken down only when asked."""
