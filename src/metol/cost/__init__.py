"""From a loop nest to predicted seconds: the feature rows and the analytical model of the core, seen from Python."""
