/** Whether a URL leads to this machine itself. */
export function isLoopback(url: string): boolean {
  return /^https?:\/\/(127\.|localhost[:/]|\[::1\])/i.test(url);
}
