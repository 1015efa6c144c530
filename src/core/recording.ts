/**
 * What an upstream said, kept to be heard again. Replaying it runs the same code as the first time,
 * under a new id and free of charge; so one recording serves streams and whole replies alike.
 */
export interface Recording {
  /** The upstream's dialect. */
  readonly dialect: string;
  readonly form: 'stream' | 'whole';
  /** The answer, byte for byte as text. */
  readonly text: string;
  /** The alias and the provider that answered. */
  readonly model: string;
  readonly provider: string;
}
