import type { JsonObject } from '../core/json.ts';

/** An object of the configuration, as the store has it. Times are epoch milliseconds. */
export interface StoredObject {
  readonly kind: string;
  readonly name: string;
  /** With a label in place of each secret. */
  readonly document: JsonObject;
  /** The secrets, encrypted. Null if there are none. */
  readonly sealed: Uint8Array | null;
  /** The version of the configuration in which the object was last changed. */
  readonly version: number;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly updatedAt: number;
  readonly updatedBy: string;
}

/** All objects of one version of the configuration. */
export interface ConfigSnapshot {
  /** Increases with every change. 0 if there was none. */
  readonly version: number;
  readonly objects: readonly StoredObject[];
  /** How many tenants have each plan. Only set while a change is planned. */
  readonly tenantsByPlan?: ReadonlyMap<string, number>;
}

export type ObjectId = Pick<StoredObject, 'kind' | 'name'>;
export type NewObject = ObjectId & Pick<StoredObject, 'document' | 'sealed'>;

/** A change for the audit log. The states have labels in place of secrets. */
export interface AuditedChange {
  readonly action: string;
  readonly target: string;
  readonly tenantId: string | null;
  readonly before: unknown;
  readonly after: unknown;
}

export interface ConfigChanges {
  readonly saved: readonly NewObject[];
  readonly removed: readonly ObjectId[];
  readonly audited: readonly AuditedChange[];
}

/** Stores the configuration objects that were created over the API or by commands. */
export interface ConfigStore {
  version(): Promise<number>;
  /** Returns the objects sorted by kind and name. */
  read(): Promise<ConfigSnapshot>;
  /**
   * Applies what `plan` returns for the current objects, and records it, in one transaction.
   * Changes by other processes wait for it. `sealingKey` is the fingerprint of the key that has to
   * encrypt the secrets; it is set to `ownKey` if there is none yet. Returns the objects afterward.
   */
  change(
    now: number,
    ownKey: string,
    plan: (current: ConfigSnapshot, sealingKey: string) => ConfigChanges,
  ): Promise<ConfigSnapshot>;
}
