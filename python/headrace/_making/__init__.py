"""What making datasets is made of: jobs of the engine, and samples that Python reads."""
