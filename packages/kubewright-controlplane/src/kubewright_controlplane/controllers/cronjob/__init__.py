"""The CronJob controller: Jobs at times of a schedule."""
