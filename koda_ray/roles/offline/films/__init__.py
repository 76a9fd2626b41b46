"""What films are made of, whatever their subject: timing, stage, and ways to move."""
