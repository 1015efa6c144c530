/** The names under which answers go to clients in tests of dialects. */
export const identity = {
  id: 'chatcmpl-0123456789abcdef',
  model: 'acme/large',
  provider: 'acme',
  created: 1_800_000_000,
};
