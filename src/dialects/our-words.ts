/** Words between the client and us; no upstream knows them. */
export const ourWords: readonly string[] = ['models', 'provider', 'route', 'skills', 'plugins'];
