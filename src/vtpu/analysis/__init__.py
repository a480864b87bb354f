"""What a recording and its programs mean: values in, values out. Nothing here prints."""
