"""Growing trees on listed examples, such as samples."""
