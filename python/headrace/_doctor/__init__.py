"""What limits a training: measured here, or worked out beforehand."""
