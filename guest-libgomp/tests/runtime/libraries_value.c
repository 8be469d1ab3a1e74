/* Built twice, with values that differ. Nothing else does. */
int libraries_value(void);
int libraries_value(void)
{
    return VALUE;
}
