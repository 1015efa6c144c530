/** The tenants that are at least `max` times in a list: one that has many must not block others. */
export function crowded(tenantIds: readonly string[], max: number): string[] {
  const byTenant = Map.groupBy(tenantIds, (id) => id);
  return [...byTenant].flatMap(([id, all]) => (all.length >= max ? [id] : []));
}
