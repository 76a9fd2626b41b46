window.module = "loaded";
