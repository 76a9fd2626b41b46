function start() {
    return radius * 2;
}
start();
//# sourceMappingURL=app.js.map
