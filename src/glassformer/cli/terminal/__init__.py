"""What a person sees and types: results, progress, tables that live, texts from arguments and stdin."""
