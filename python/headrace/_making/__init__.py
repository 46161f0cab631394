"""Making datasets: jobs of the engine, and samples that Python reads."""
