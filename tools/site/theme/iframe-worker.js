// Search of a site that is opened as files: a browser starts no workers there, and the search is one. So it runs in a
// frame of the page instead. Where the site is served, nothing of this happens.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = "<!doctype html>"
      this.loaded = new Promise((resolve, reject) => {
        this.frame.onload = () => {
          const inner = this.frame.contentWindow
          inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }))
          const script = inner.document.createElement("script")
          script.src = url
          script.onload = () => resolve(inner)
          script.onerror = reject
          inner.document.body.append(script)
        }
      })
      this.loaded.catch((error) => this.onerror?.(error))
      document.body.append(this.frame)
    }

    postMessage(data) {
      this.loaded.then((inner) => inner.onmessage({ data })).catch(() => {})
    }

    terminate() {
      this.frame.remove()
    }
  }
}
