"""No models: the tables are Mainspring's own. Django sends ``post_migrate`` only for apps with this file."""
