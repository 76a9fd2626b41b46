"""Small pages of what people render, and pictures of how they are to look."""
