/** The ids and names that answers to clients have in tests of dialects. */
export const identity = {
  id: 'chatcmpl-0123456789abcdef',
  model: 'acme/large',
  provider: 'acme',
  created: 1_800_000_000,
};
