"""The only room that reads YAML: a file goes in, a Config or its problems come out."""
