"""No models: the tables are Mainspring's own. Only apps that have this file are told when Django has migrated."""
