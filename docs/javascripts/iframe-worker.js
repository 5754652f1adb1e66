// The search of a site that is opened from a folder: browsers run no Worker for pages of file://, so
// its script runs in a hidden frame. The theme looks for this class by its name.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.window = frame.contentWindow;
      this.window.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      this.loaded = new Promise((resolve) => (script.onload = resolve));
      frame.contentDocument.body.append(script);
    }
    async postMessage(data) {
      await this.loaded;
      this.window.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
  window.Worker = window.IFrameWorker;
}
