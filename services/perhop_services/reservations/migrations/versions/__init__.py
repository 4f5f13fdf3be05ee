"""The steps. A step that was released does not change; what comes after it is another step."""
