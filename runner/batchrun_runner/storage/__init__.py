"""Where objects lie: one small interface, a local folder and S3 behind it. The only package that imports boto3."""
