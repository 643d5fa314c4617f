"""The Deployment controller: rolls replica sets so that the pods of a Deployment become those of its template."""
