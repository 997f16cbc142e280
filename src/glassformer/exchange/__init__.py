"""Other people's formats: Hugging Face folders and GGUF files in, Hugging Face folders and ONNX files out."""
