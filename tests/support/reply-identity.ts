/** The IDs and model name in answers to clients, for tests of dialects. */
export const identity = {
  id: 'chatcmpl-0123456789abcdef',
  model: 'acme/large',
  provider: 'acme',
  created: 1_800_000_000,
};
