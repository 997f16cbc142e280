"""ONNX graphs, out."""
