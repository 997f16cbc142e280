"""Pictures: panels as matplotlib figures."""
